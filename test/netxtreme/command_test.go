// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"strings"
	"testing"
)

// word returns a function that writes a number at an offset.
func word(off int, v uint32) func(in []byte) {
	return func(in []byte) { le.PutUint32(in[off:], v) }
}

// all returns a function that calls functions in order.
func all(fills ...func(in []byte)) func(in []byte) {
	return func(in []byte) {
		for _, f := range fills {
			f(in)
		}
	}
}

// reported checks that there is one violation, with a text.
func (r *rig) reported(t *testing.T, want string) {
	t.Helper()
	if len(r.violations) != 1 || !strings.Contains(r.violations[0].Error(), want) {
		t.Errorf("violations = %v, want %q", r.violations, want)
	}
}

// TestRefusedFirmwareCommands checks that mistakes in commands of HWRM are refused and reported.
func TestRefusedFirmwareCommands(t *testing.T) {
	address := func(off int, v uint64) func(in []byte) {
		return func(in []byte) { le.PutUint64(in[off:], v) }
	}
	kind := func(k uint8) func(in []byte) {
		return all(func(in []byte) { in[0x14] = k }, address(0x18, memoryBase), word(0x28, 16))
	}
	for want, tc := range map[string]struct {
		code uint16
		fill func(in []byte)
	}{
		"there is no such command":            {0x7f, nil},
		"there is no completion ring 5":       {0x15, func(in []byte) { le.PutUint16(in[2:], 5) }},
		"no function 0x7":                     {0x15, word(16, 7)},
		"65 objects at offset 0x26":           {0x17, all(word(0x18, 0x20), word(0x26, 65))},
		"no notification queue 77":            {0x17, all(word(0x18, 0x4000), word(0x50, 77))},
		"no rings of type 3":                  {0x50, kind(3)},
		"3 entries, want a power":             {0x50, all(kind(ringNotify), word(0x28, 3))},
		"1 pages of 0x1000 bytes":             {0x50, all(kind(ringNotify), word(0x28, 1<<10))},
		"tables of 3 levels":                  {0x50, all(kind(ringNotify), func(in []byte) { in[0x24], in[0x25] = 12, 3 })},
		"pages of 2^9 bytes":                  {0x50, all(kind(ringNotify), func(in []byte) { in[0x24], in[0x25] = 9, 1 })},
		"no vector 32":                        {0x50, all(kind(ringNotify), word(0x2c, 32))},
		"no notification queue 9":             {0x50, all(kind(ringCompletion), word(0x10, validNQ), word(0x36, 9))},
		"no completion ring 9":                {0x50, all(kind(ringTx), word(0x2c, 9<<16))},
		"flags 0x1 of a receive ring":         {0x50, all(kind(ringRx), func(in []byte) { in[0x16] = 1 })},
		"no receive ring 9":                   {0x50, all(kind(ringAggregate), word(0x10, validRxRing), word(0x34, 9))},
		"no ring 99 of type 5":                {0x51, func(in []byte) { in[0x10], in[0x12] = 5, 99 }},
		"notification queue 0x2 has 1 users":  {0x51, func(in []byte) { in[0x10], in[0x12] = 5, 2 }},
		"160 bytes for statistics at 0x10":    {0xb0, all(address(0x10, 0x10), word(0x1c, 160<<16))},
		"no statistics 5":                     {0xb1, word(0x10, 5)},
		"VNIC_FREE: there is no VNIC 0x5":     {0x41, word(0x10, 5)},
		"VNIC_CFG: there is no VNIC 0x5":      {0x42, word(0x18, 5)},
		"no context 4":                        {0x71, word(0x10, 4)},
		"a filter with fields 0x1":            {0x90, word(0x14, 1)},
		"CFA_L2_FILTER_ALLOC: there is no VN": {0x90, all(word(0x14, 0x8001), word(0x4e, 9))},
		"no filter 0x4":                       {0x91, word(0x10, 4)},
		"16385 contexts at offset 0xa8":       {0x193, word(0xa8, 16385)},
		"a table at 0x7":                      {0x193, address(0x28, 7)},
	} {
		r := newRig(t, nil)
		r.tolerant = true
		r.cq(0, 16)
		if _, status := r.hwrmStatusOf(tc.code, tc.fill); status == 0 {
			t.Errorf("%s: the command succeeded", want)
		}
		r.reported(t, want)
	}
}

// TestRefusedCommands checks that mistakes in commands of RCFW are refused and reported.
func TestRefusedCommands(t *testing.T) {
	cq := all(word(0x1c, 2), word(0x24, 16), word(0x28, memoryBase))
	qp := all(func(in []byte) { in[0x1c] = typeRC }, word(0x24, 16), word(0x28, 16), word(0x2c, maxSGE<<16), word(0x30, 1), word(0x34, 1),
		word(0x40, memoryBase), word(0x48, memoryBase))
	mr := all(word(0x10, 12<<2|1|12<<16), word(0x14, 1<<8), word(0x18, memoryBase), word(0x28, 100))
	for want, tc := range map[string]struct {
		code uint8
		fill func(in []byte)
	}{
		"no such command":                        {0x70, nil},
		"doorbell pages of 2^13":                 {0x80, word(0x14, 1<<16)},
		"there are 1 QPs, 1 CQs and 0 SRQs":      {0x81, nil},
		"0 bytes for the answer":                 {0x83, nil},
		"QUERY_QP: 16 bytes for":                 {0x04, all(func(in []byte) { in[6] = 1 }, word(8, memoryBase), word(0x10, 0x80))},
		"no notification queue 9":                {0x09, all(cq, word(0x1c, 9))},
		"the first completion has index 1":       {0x09, all(cq, word(0x1c, 1<<12|2))},
		"1 entries, want 2 to":                   {0x09, all(cq, word(0x24, 1))},
		"no memory for 512 bytes at 0x10":        {0x09, all(cq, word(0x28, 0x10))},
		"tables of 3 levels":                     {0x09, all(cq, word(0x18, 3))},
		"pages with code 6":                      {0x09, all(cq, word(0x18, 1|6<<2))},
		"DESTROY_CQ: there is no CQ 0x7":         {0x0a, word(0x10, 7)},
		"CQ 0x1 has 2 QPs":                       {0x0a, word(0x10, 1)},
		"RESIZE_CQ: there is no CQ 0x7":          {0x0c, word(0x10, 7)},
		"QPs of type 3":                          {0x01, all(qp, func(in []byte) { in[0x1c] = 3 })},
		"flags 0x10":                             {0x01, all(qp, word(0x18, flagVariable))},
		"no DPI 65536":                           {0x01, all(qp, word(0x20, 65536))},
		"CREATE_QP: there is no CQ 0x7":          {0x01, all(qp, word(0x34, 7))},
		"CREATE_QP: there is no SRQ 0x0":         {0x01, all(qp, word(0x18, flagSRQ))},
		"send queue: 40000 entries":              {0x01, all(qp, word(0x24, 40000))},
		"receive queue: the host has no mem":     {0x01, all(qp, word(0x48, 3))},
		"DESTROY_QP: there is no QP 0x7":         {0x02, word(0x10, 7)},
		"MODIFY_QP: there is no QP 0x7":          {0x03, word(0x14, 7)},
		"transition from RESET to RTS":           {0x03, all(word(0x10, setState), word(0x14, 0x80), word(0x18, 3))},
		"MTU 6":                                  {0x03, all(word(0x10, setMTU), word(0x14, 0x80), word(0x3c, 6<<28))},
		"CREATE_SRQ: there is no notification":   {0x05, word(0x1a, 9)},
		"CREATE_SRQ: 1 entries":                  {0x05, all(word(0x1a, 2), word(0x1c, 1))},
		"DESTROY_SRQ: there is no SRQ 0x7":       {0x06, word(0x10, 7)},
		"keys of type 5":                         {0x0d, word(0x18, 5)},
		"DEALLOCATE_KEY: there is no key 0x900":  {0x0e, word(0x14, 0x900)},
		"REGISTER_MR: there is no key 0x900":     {0x0f, all(mr, word(0x14, 0x900))},
		"0x0 bytes in pages":                     {0x0f, all(mr, word(0x28, 0))},
		"pages of 2^11 bytes":                    {0x0f, all(mr, word(0x10, 11<<2|1))},
		"tables of 2^13 bytes":                   {0x0f, all(mr, word(0x10, 12<<2|1|13<<16))},
		"DEREGISTER_MR: there is no key 0x900":   {0x10, word(0x10, 0x900)},
		"DELETE_GID: there is no address 3":      {0x12, word(0x10, 3)},
		"MODIFY_GID: there is no address 3":      {0x17, word(0x2a, 3)},
		"CREATE_AH: there is no address 3":       {0x15, word(0x2a, 3)},
		"network type 1":                         {0x15, word(0x28, 1)},
		"DESTROY_AH: there is no address handle": {0x16, word(0x10, 3)},
	} {
		r := newRig(t, nil)
		r.tolerant = true
		r.qp(typeRC)
		r.address(1)
		if a := r.exec(tc.code, 0x90, tc.fill); a[1] == 0 {
			t.Errorf("%s: the command succeeded", want)
		}
		r.reported(t, want)
	}
}

// TestChannelMistakes checks descriptions of the channel that are refused.
func TestChannelMistakes(t *testing.T) {
	for want, config := range map[string]uint64{
		"3 descriptors, want a power":      3<<2 | 1<<16,
		"no notification queue 77":         channelDepth<<2 | 77<<16,
		"tables of 3 levels":               channelDepth<<2 | 3 | 1<<16,
		"a command of 0 descriptors, with": channelDepth<<2 | 1<<16,
	} {
		r := newRig(t, nil)
		r.tolerant = true
		r.write(0, regChannel, r.alloc(pageSize), 4)
		r.write(0, regChannel+8, config, 4)
		r.write(0, regChannelProd, channelFirst|1, 4)
		r.write(0, regChannelTrigger, 1, 4)
		r.reported(t, want)
	}
}

// TestBeforeInitialization sends a command before the firmware is initialized.
func TestBeforeInitialization(t *testing.T) {
	r := newRig(t, nil)
	r.tolerant = true
	r.must(0x81, 0x18, nil)
	if a := r.exec(0x11, 0x30, nil); a[1] == 0 {
		t.Error("ADD_GID succeeded before INITIALIZE_FW")
	}
	r.reported(t, "ADD_GID: the firmware is not initialized")
}

// TestSecondDriver ends the firmware's work for a driver and begins it for the next one, as a removal of bnxt_re and its
// return do. The next driver has a channel of its own, and its addresses are numbered from 0.
func TestSecondDriver(t *testing.T) {
	r := newRig(t, nil)
	for range 2 {
		for want := range uint32(3) {
			if n, _ := r.address(byte(want)); n != want {
				t.Errorf("ADD_GID = %d, want %d", n, want)
			}
		}
		for n := range uint16(3) {
			r.must(0x12, 0x18, func(in []byte) { le.PutUint16(in[0x10:], n) })
		}
		r.must(0x81, 0x18, nil)
		r.hwrm(0x51, func(in []byte) { in[0x10], in[0x12] = ringNotify, byte(r.answers) })
		r.openChannel()
		r.must(0x80, 0x70, nil)
	}
}

// TestStrayDoorbells checks that doorbells of missing objects and wrong indices are reported.
func TestStrayDoorbells(t *testing.T) {
	for want, do := range map[string]func(q *rigQP){
		"QP 0x99 does not exist":        func(q *rigQP) { q.r.ringDoorbell(3, doorbellSQ, 0x99, 1) },
		"QP 0x80 does not exist or has": func(q *rigQP) { q.r.ringDoorbell(4, doorbellSQ, q.n, 1) },
		"CQ 0x1 does not exist or has":  func(q *rigQP) { q.r.ringDoorbell(4, doorbellCQ, q.cq.n, 1) },
		"SRQ 0x1 does not exist":        func(q *rigQP) { q.r.ringDoorbell(3, doorbellSRQ, 1, 1) },
		"notification queue 88":         func(q *rigQP) { q.r.ringDoorbell(0, doorbellNQ, 88, 1) },
		"notification queue 87":         func(q *rigQP) { q.r.ringDoorbell(0, doorbellNQMask, 87, 1) },
		"no ring 5 for a doorbell":      func(q *rigQP) { q.r.ringL2(doorbellSQ, 5, 1) },
		"a store of 4 bytes":            func(q *rigQP) { q.r.write(doorbellBAR, doorbellStart, 1, 4) },
		"where no register is":          func(q *rigQP) { q.r.write(1, 0, 1, 4) },
		"a store of 0x1 to 0x900":       func(q *rigQP) { q.r.write(0, 0x900, 1, 4) },
		"with 0 of 16 requests":         func(q *rigQP) { q.r.ringDoorbell(3, doorbellSQ, q.n, 16) },
		"consumer index 0x5 of 0x40":    func(q *rigQP) { q.r.ringDoorbell(3, doorbellCQ, q.cq.n, 5) },
		"consumer index 0x5, which":     func(q *rigQP) { q.r.ringDoorbell(0, doorbellNQ, uint32(q.r.nq), 5) },
		"for the end of a ring":         func(q *rigQP) { q.r.ringDoorbell(3, doorbellCutoffAck, q.cq.n, 0) },
		"with 0 of 16 receives":         func(q *rigQP) { q.r.ringDoorbell(3, doorbellRQ, q.n, 16) },
	} {
		a, _ := pair(t)
		a.r.tolerant = true
		do(a)
		a.r.reported(t, want)
	}
}

// TestRequestMistakes posts requests that a driver must not post.
func TestRequestMistakes(t *testing.T) {
	for want, do := range map[string]func(q *rigQP){
		"operation 0x3":  func(q *rigQP) { q.post(header(3, 0, 2, 0, 0), 0) },
		"it has 1 slots": func(q *rigQP) { q.post(header(opSend, 0, 1, 0, 0), 0) },
		"it has 9 slots": func(q *rigQP) { q.post(header(opWrite, 0, 9, 0, 0), 0) },
		"has PSNs 0xffff01 to 0xffff04 and index 0x8, want 0xffff01 to 0xffff02 and 0x1": func(q *rigQP) { q.send(0, 0, 0); q.post(header(opSend, 0, 2, 0, 0), 3000) },
	} {
		a, b := pair(t)
		a.r.tolerant = true
		b.postReceive(b.memory, b.key, 10)
		do(a)
		a.r.reported(t, want)
	}
}
