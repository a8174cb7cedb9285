// SPDX-License-Identifier: Apache-2.0

package mlx5

import "purerdma/provider"

// First returns the Builder of the first request of each batch.
func (q *QP) First() provider.Builder { return (*firstRequest)(q) }

// firstRequest is a QP that builds the first request of a batch.
type firstRequest QP

func (q *firstRequest) BatchSend(id uint64, local provider.SGE, flags provider.SendFlags) error {
	q.sq.begin()
	return (*QP)(q).BatchSend(id, local, flags)
}

func (q *firstRequest) BatchSendInline(id uint64, data []byte, flags provider.SendFlags) error {
	q.sq.begin()
	return (*QP)(q).BatchSendInline(id, data, flags)
}

func (q *firstRequest) BatchWrite(id uint64, local provider.SGE, remote provider.RemoteMemory, flags provider.SendFlags) error {
	q.sq.begin()
	return (*QP)(q).BatchWrite(id, local, remote, flags)
}

func (q *firstRequest) BatchWriteInline(id uint64, data []byte, remote provider.RemoteMemory, flags provider.SendFlags) error {
	q.sq.begin()
	return (*QP)(q).BatchWriteInline(id, data, remote, flags)
}
