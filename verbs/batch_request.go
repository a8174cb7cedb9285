// SPDX-License-Identifier: Apache-2.0

package verbs

// SendImm sends the bytes of local and a number, see SendWR.ImmData.
func (b *Batch) SendImm(id uint64, imm uint32, local SGE, flags SendFlags) {
	wr := b.request(OpSendImm, id, local, RemoteMemory{}, flags)
	wr.ImmData = imm
	b.Add(wr)
}

// WriteImm writes the bytes of local to the first bytes of remote, and completes a
// receive of the peer with a number.
func (b *Batch) WriteImm(id uint64, imm uint32, local SGE, remote RemoteMemory, flags SendFlags) {
	wr := b.request(OpWriteImm, id, local, remote, flags)
	wr.ImmData = imm
	b.add(wr, local, remote)
}

// Read reads the first bytes of remote into local, as many as local has.
func (b *Batch) Read(id uint64, local SGE, remote RemoteMemory, flags SendFlags) {
	b.add(b.request(OpRead, id, local, remote, flags), local, remote)
}

// CompareSwap stores swap in the first 8 bytes of remote if they hold compare. local has 8 bytes
// and receives the old value. The address of remote is a multiple of 8.
func (b *Batch) CompareSwap(id uint64, local SGE, remote RemoteMemory, compare, swap uint64, flags SendFlags) {
	wr := b.request(OpCompareSwap, id, local, remote, flags)
	wr.CompareAdd, wr.Swap = compare, swap
	b.add(wr, local, remote)
}

// FetchAdd adds to the first 8 bytes of remote. local has 8 bytes and receives the old value. The
// address of remote is a multiple of 8.
func (b *Batch) FetchAdd(id uint64, local SGE, remote RemoteMemory, add uint64, flags SendFlags) {
	wr := b.request(OpFetchAdd, id, local, remote, flags)
	wr.CompareAdd = add
	b.add(wr, local, remote)
}

// add adds a request that uses remote memory.
func (b *Batch) add(wr *SendWR, local SGE, remote RemoteMemory) {
	b.begin()
	if uint64(local.Length) > remote.Length {
		if b.failure() == nil {
			b.next = failedBatch{ErrRemoteLength}
		}
		return
	}
	b.Add(wr)
}

// request fills b.wr in. Fields that op does not use keep old values.
func (b *Batch) request(op SendOpcode, id uint64, local SGE, remote RemoteMemory, flags SendFlags) *SendWR {
	b.sg[0] = local
	wr := &b.wr
	wr.ID, wr.Opcode, wr.Flags, wr.SGList, wr.InlineData = id, op, flags, b.sg[:], nil
	wr.RemoteAddr, wr.RKey = remote.Addr, remote.RKey
	return wr
}

// inline is request for inline data.
func (b *Batch) inline(op SendOpcode, id uint64, data []byte, remote RemoteMemory, flags SendFlags) *SendWR {
	wr := b.request(op, id, SGE{}, remote, flags)
	if wr.SGList, wr.InlineData = nil, data; data == nil {
		wr.InlineData = []byte{}
	}
	return wr
}
