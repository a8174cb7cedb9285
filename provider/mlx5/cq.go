// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"

	"purerdma/provider"
)

// CQ is a completion queue.
type CQ struct{ provider.CQ }

// CreateCQ makes a completion queue.
func (c *Context) CreateCQ(cfg *provider.CQConfig) (provider.CQ, error) {
	return nil, errors.ErrUnsupported
}

// clean takes the completions of a QP that is reset or destroyed out of the queue,
// and forgets the QP. The receives of its SRQ, if it has one, go back there.
func (c *CQ) clean(qp *QP) {}
