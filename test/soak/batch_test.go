// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import "purerdma/verbs"

// postBatch posts the queue as a Batch, all or nothing.
func (e *end) postBatch() {
	e.batch.Reset(e.qp)
	for i := range e.queue {
		e.addToBatch(&e.queue[i])
	}
	err := e.batch.Post()
	switch {
	case err == nil:
		e.queue = e.queue[:0]
	case !isFull(err):
		e.broke(err)
	}
}

// addToBatch adds a request with the matching method.
func (e *end) addToBatch(wr *verbs.SendWR) {
	b := &e.batch
	remote := verbs.RemoteMemory{Addr: wr.RemoteAddr, Length: regionLen, RKey: wr.RKey}
	switch one := len(wr.SGList) == 1; {
	case wr.Opcode == verbs.OpSend && wr.InlineData != nil:
		b.SendInline(wr.ID, wr.InlineData, wr.Flags)
	case wr.Opcode == verbs.OpWrite && wr.InlineData != nil:
		b.WriteInline(wr.ID, wr.InlineData, remote, wr.Flags)
	case !one || wr.InlineData != nil:
		b.Add(wr)
	case wr.Opcode == verbs.OpSend:
		b.Send(wr.ID, wr.SGList[0], wr.Flags)
	case wr.Opcode == verbs.OpSendImm:
		b.SendImm(wr.ID, wr.ImmData, wr.SGList[0], wr.Flags)
	case wr.Opcode == verbs.OpWrite:
		b.Write(wr.ID, wr.SGList[0], remote, wr.Flags)
	case wr.Opcode == verbs.OpWriteImm:
		b.WriteImm(wr.ID, wr.ImmData, wr.SGList[0], remote, wr.Flags)
	case wr.Opcode == verbs.OpRead:
		b.Read(wr.ID, wr.SGList[0], remote, wr.Flags)
	case wr.Opcode == verbs.OpFetchAdd:
		b.FetchAdd(wr.ID, wr.SGList[0], remote, wr.CompareAdd, wr.Flags)
	case wr.Opcode == verbs.OpCompareSwap:
		b.CompareSwap(wr.ID, wr.SGList[0], remote, wr.CompareAdd, wr.Swap, wr.Flags)
	default:
		b.Add(wr)
	}
}
