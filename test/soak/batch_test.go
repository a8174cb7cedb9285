// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import "purerdma/verbs"

// postBatch posts the queue as a Batch does, all or nothing.
func (e *end) postBatch() {
	e.batch.Reset(e.qp)
	for i := range e.queue {
		if !addToBatch(&e.batch, &e.queue[i]) {
			e.batch.Discard()
			return // post does it
		}
	}
	err := e.batch.Post()
	switch {
	case err == nil:
		e.queue = e.queue[:0]
	case !isFull(err):
		e.broke(err)
	}
}

// addToBatch adds a request by the method that there is for it.
func addToBatch(b *verbs.Batch, wr *verbs.SendWR) bool {
	inline := wr.InlineData != nil
	switch {
	case wr.Opcode == verbs.OpSend && inline:
		b.SendInline(wr.ID, wr.InlineData)
	case wr.Opcode == verbs.OpSend:
		b.Send(wr.ID, wr.SGList...)
	case wr.Opcode == verbs.OpSendImm && !inline:
		b.SendImm(wr.ID, wr.ImmData, wr.SGList...)
	case wr.Opcode == verbs.OpSendInv && !inline:
		b.SendInv(wr.ID, wr.InvalidateRKey, wr.SGList...)
	case wr.Opcode == verbs.OpWrite && inline:
		b.WriteInline(wr.ID, wr.InlineData, wr.RemoteAddr, wr.RKey)
	case wr.Opcode == verbs.OpWrite && len(wr.SGList) == 1:
		b.Write(wr.ID, wr.SGList[0], wr.RemoteAddr, wr.RKey)
	case wr.Opcode == verbs.OpWriteImm && len(wr.SGList) == 1:
		b.WriteImm(wr.ID, wr.ImmData, wr.SGList[0], wr.RemoteAddr, wr.RKey)
	case wr.Opcode == verbs.OpRead && len(wr.SGList) == 1:
		b.Read(wr.ID, wr.SGList[0], wr.RemoteAddr, wr.RKey)
	case wr.Opcode == verbs.OpFetchAdd:
		b.FetchAdd(wr.ID, wr.SGList[0], wr.RemoteAddr, wr.RKey, wr.CompareAdd)
	case wr.Opcode == verbs.OpCompareSwap:
		b.CompareSwap(wr.ID, wr.SGList[0], wr.RemoteAddr, wr.RKey, wr.CompareAdd, wr.Swap)
	case wr.Opcode == verbs.OpLocalInv:
		b.LocalInv(wr.ID, wr.InvalidateRKey)
	default:
		return false
	}
	if wr.Flags&verbs.SendSignaled != 0 {
		b.Signal()
	}
	if wr.Flags&verbs.SendFence != 0 {
		b.Fence()
	}
	if wr.Flags&verbs.SendSolicited != 0 {
		b.Solicited()
	}
	return true
}
