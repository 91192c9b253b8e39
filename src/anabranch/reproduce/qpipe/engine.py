"""A staged engine: queries become packets, and a packet that would do what another one does attaches to it.

Every round, each packet that can go on handles a page. Without merging it stands for an engine whose queries know
nothing of each other, and that has no queues.

Differs from the paper: packets are looked for from the root of a plan down, so that the largest common subtree is found
first; there they are activated from the leaves up, and a parent that attaches tells its children to stop.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from anabranch.model.arrays import Counts
from anabranch.reproduce.qpipe.buffers import Buffer
from anabranch.reproduce.qpipe.disk import COSTS, POOL_SHARE, BufferPool, Costs, File, Meter
from anabranch.reproduce.qpipe.packets import AggregatePacket, JoinPacket, Packet, ReadPacket, SortPacket, scan
from anabranch.reproduce.qpipe.plans import Aggregate, FileScan, IndexScan, MergeJoin, Plan, Sort, children

LARGEST_LIMIT = 64


class StagedEngine:
    """Runs queries over stored tables.

    Parameters
    ----------
    tables
        In the order of `unique2`.
    merging
        Whether equal work is done once; with the costs of queues.
    costs
        Of a row, a comparison and a queue.
    """

    def __init__(self, tables: Mapping[str, File], *, merging: bool, costs: Costs = COSTS) -> None:
        self.meter = Meter(costs)
        self._tables = tables
        self._merging = merging
        self._pool = BufferPool(round(POOL_SHARE * max(file.pages for file in tables.values())), self.meter)
        self._packets: list[Packet] = []
        self._working: dict[Plan, Packet] = {}
        self._sorted: dict[Plan, tuple[File, list[ReadPacket]]] = {}
        self._clients: dict[str, Buffer] = {}
        self._answers: dict[str, list[Counts]] = {}

    def submit(self, query: str, plan: Plan) -> None:
        """A query arrives."""
        self._answers[query] = []
        self._clients[query] = self._open(plan)

    @property
    def running(self) -> tuple[str, ...]:
        """Queries without a complete answer."""
        return tuple(self._clients)

    def answer(self, query: str) -> Counts:
        """All rows of a query."""
        pages = self._answers[query]
        return np.concatenate(pages) if pages else np.zeros((0, 0), dtype=np.int64)

    def round(self) -> list[str]:
        """Let every packet that can go on handle a page; the queries that have ended."""
        for packet in list(self._packets):
            if packet.ready() and self._room(packet):
                packet.waiting = False
                packet.step()
                if packet.done:
                    self._end(packet)
            elif not packet.waiting:
                packet.waiting = True
                self._enqueued()
        return self._drained()

    def _drained(self) -> list[str]:
        ended = []
        for query, buffer in list(self._clients.items()):
            while (page := buffer.take()) is not None:
                self._answers[query].append(page)
            if buffer.finished:
                del self._clients[query]
                ended.append(query)
        return ended

    # -- packets

    def _open(self, plan: Plan) -> Buffer:
        buffer = self._attached(plan) if self._merging else None
        if buffer is not None:
            return buffer
        inputs = [self._open(each) for each in children(plan)]
        buffer = Buffer()
        packet: Packet
        match plan:
            case FileScan() | IndexScan():
                packet = scan(plan, self._tables[plan.table], self._pool, self.meter)
                packet.add(buffer, (plan.low, plan.high))
            case Sort():
                packet = SortPacket(plan, inputs, self._pool, self.meter)
            case MergeJoin():
                packet = JoinPacket(plan, inputs, self.meter)
            case Aggregate():
                packet = AggregatePacket(plan, inputs, self.meter)
        if not isinstance(packet, ReadPacket):
            packet.outputs.append(buffer)
        self._start(_place(plan), packet)
        return buffer

    def _start(self, place: Plan, packet: Packet) -> None:
        self._packets.append(packet)
        self._working[place] = packet
        self._enqueued()

    def _attached(self, plan: Plan) -> Buffer | None:
        """A buffer of a packet that does the work already, if it is not too late for that."""
        packet = self._working.get(_place(plan))
        buffer = None
        if isinstance(packet, ReadPacket) and isinstance(plan, FileScan | IndexScan):
            buffer = None if packet.begun else packet.add(Buffer(), (plan.low, plan.high))
        elif packet is not None and not packet.done:
            buffer = packet.attach()
        if buffer is not None and packet is not None:
            self.meter.merged[packet.stage] += 1
        elif plan in self._sorted:
            buffer = self._read_again(plan)
        return buffer

    def _read_again(self, plan: Plan) -> Buffer:
        """Another reader of a sorted file, which stays as long as somebody reads it."""
        file, readers = self._sorted[plan]
        packet = ReadPacket("sort", file, file, range(file.pages), self._pool, self.meter)
        buffer = packet.add(Buffer())
        readers.append(packet)
        self._start(plan, packet)
        self.meter.merged["sorted file"] += 1
        return buffer

    def _end(self, packet: Packet) -> None:
        self._packets.remove(packet)
        self._working = {plan: each for plan, each in self._working.items() if each is not packet}
        if isinstance(packet, SortPacket) and packet.file is not None:
            reader = packet.reader()
            self._sorted[packet.plan] = packet.file, [reader]
            self._start(packet.plan, reader)
        for plan, (_, readers) in list(self._sorted.items()):
            if packet in readers:
                readers.remove(packet)
                if not readers:
                    del self._sorted[plan]

    def _room(self, packet: Packet) -> bool:
        """Whether all parents can take a page. If some can, the others get larger buffers or packets of their own."""
        full = [buffer for buffer in packet.outputs if buffer.full]
        if len(full) == len(packet.outputs):
            return False
        for buffer in full:
            if buffer.limit < LARGEST_LIMIT or not isinstance(packet, ReadPacket):
                buffer.limit *= 2
            else:
                self._split(packet, buffer)
        return True

    def _split(self, packet: ReadPacket, buffer: Buffer) -> None:
        other = packet.split(buffer)
        self._packets.append(other)
        self._enqueued()
        self.meter.splits += 1
        for _, readers in self._sorted.values():
            if packet in readers:
                readers.append(other)

    def _enqueued(self) -> None:
        self.meter.enqueues += self._merging


def _place(plan: Plan) -> Plan:
    """What packets of a stage are looked up by: scans of a file are one whatever they look for."""
    return FileScan(plan.table) if isinstance(plan, FileScan) else plan
