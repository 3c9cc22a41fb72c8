"""The ground floor: what a cell, a run and a history are. Standard library only."""
