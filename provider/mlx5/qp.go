// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"sync/atomic"

	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/uverbs"
)

// QP is a queue pair. Besides provider.QP it has what only mlx5 devices can do;
// programs reach it by a type assertion of verbs.QP.Provider().
type QP struct {
	num    uint32
	index  uint32 // user index
	typ    provider.QPType
	srq    *SRQ // or nil
	sendCQ *CQ  // nil if it sends nothing
	recvCQ *CQ  // nil if it receives nothing
	sq     sendQueue
	rq     recvQueue

	ctx    *Context
	file   *uverbs.File
	handle uint32
	cap    provider.QPCap
	db     *doorbell
	buf    *mem.Region // of both queues: the receive queue's first
	leak   *leak.Entry
	state  atomic.Uint32 // provider.QPState
	closed atomic.Bool
}

// CreateQP makes a queue pair.
func (c *Context) CreateQP(cfg *provider.QPConfig) (provider.QP, error) {
	return nil, errors.ErrUnsupported
}
