"""Whole messages over a socket between two processes: four bytes of length, and then so many."""

from __future__ import annotations

import socket
import struct

_LENGTH = struct.Struct("!I")


class Channel:
    """One end. Where the other end is gone, nothing more can be received, and nothing raises."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    @classmethod
    def of(cls, descriptor: int) -> Channel:
        """Take over an end that this process was given."""
        return cls(socket.socket(fileno=descriptor))

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Make both ends."""
        one, other = socket.socketpair()
        return cls(one), cls(other)

    def fileno(self) -> int:
        """Return the descriptor, for `select` and for a child."""
        return self._end.fileno()

    def send(self, message: bytes) -> None:
        """Send a whole message, or nothing that anybody will read."""
        try:
            self._end.sendall(_LENGTH.pack(len(message)) + message)
        except (BrokenPipeError, ConnectionResetError):
            return  # whoever waits for an answer will see that there is none

    def receive(self) -> bytes | None:
        """Wait for a whole message; None when there will be none."""
        head = self._exactly(_LENGTH.size)
        return None if head is None else self._exactly(*_LENGTH.unpack(head))

    def _exactly(self, size: int) -> bytes | None:
        got = bytearray()
        while len(got) < size:
            try:
                part = self._end.recv(min(size - len(got), 1 << 20))
            except ConnectionResetError:
                return None
            if not part:
                return None
            got += part
        return bytes(got)

    def close(self) -> None:
        """Let the other end know that nobody is here any more."""
        self._end.close()
