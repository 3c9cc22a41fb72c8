"""What the operating system tells about itself: the small files of /proc and /sys, control groups,
macOS's own answers. Beside `records` the ground floor: every wing may ask, and nothing is kept."""
