// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
)

// wqeOpcode is the offset of the opcode in a WQE.
const wqeOpcode = 3

// PostOpcode posts one request with an opcode of the device in place of its own, as mlx5dv_wr_raw_wqe(3) can. The device may not know the
// opcode. It is for checks of devices, which PostSend protects from such requests. Stats count the request as wr. It returns the errors of
// PostSend, and may be called concurrently with it unless QPConfig.Unlocked is set.
func (q *QP) PostOpcode(wr *provider.SendWR, opcode uint8) error {
	s := &q.sq
	q.BatchBegin()
	if !s.ready.Load() || s.file.Closed() {
		s.unlock()
		return q.notReady(1)
	}
	if err := q.BatchAdd(wr); err != nil {
		q.BatchDiscard()
		return err
	}
	w := unsafe.Add(s.buf, uintptr(s.batch.last)*wqebb)
	*(*uint8)(unsafe.Add(w, wqeOpcode)) = opcode
	s.publish(s.cur, 1, s.batch.last, wqeSize(w))
	return nil
}
