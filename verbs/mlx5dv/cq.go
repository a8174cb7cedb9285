// SPDX-License-Identifier: Apache-2.0

package mlx5dv

import (
	"errors"
	"fmt"

	"purerdma/provider/mlx5"
	"purerdma/verbs"
)

// CQOptions are options of a CQ (struct mlx5dv_cq_init_attr of mlx5dv_create_cq(3)).
type CQOptions = mlx5.CQOptions

// Completion is a verbs.WC with the other fields of the device's completion, as the
// timestamp (struct ibv_cq_ex of ibv_create_cq_ex(3)).
type Completion = mlx5.Completion

// CompressionFormat is the format of compressed completions.
type CompressionFormat = mlx5.CompressionFormat

// Formats of compressed completions.
const (
	CompressHash     = mlx5.CompressHash
	CompressChecksum = mlx5.CompressChecksum
)

// CQ is a completion queue of a ConnectX. All methods of a verbs.CQ may be called.
type CQ struct {
	*verbs.CQ
	p *mlx5.CQ
}

// CreateCQ creates a CQ with options, nil for none. The caller closes it.
func (d *Device) CreateCQ(cfg verbs.CQConfig, options *CQOptions) (*CQ, error) {
	if options == nil {
		options = &CQOptions{}
	}
	cq, err := internals.CreateCQ(d.dev, cfg, options)
	if err != nil {
		return nil, err
	}
	return FromCQ(cq)
}

// FromCQ returns cq with the methods of this package. If the CQ's device is not a ConnectX, the
// error wraps errors.ErrUnsupported.
func FromCQ(cq *verbs.CQ) (*CQ, error) {
	p, ok := cq.Provider().(*mlx5.CQ)
	if !ok {
		return nil, fmt.Errorf("RDMA device %s is no ConnectX: %w", cq.Device().Name(), errors.ErrUnsupported)
	}
	return &CQ{cq, p}, nil
}

// PollExtended polls completions with all fields, as Poll does without them. It passes no
// completions to a verbs.Waiter. Do not use both on one CQ.
func (c *CQ) PollExtended(cs []Completion) (int, error) { return c.p.PollExtended(cs) }

// Num returns the device's number of the CQ.
func (c *CQ) Num() uint32 { return c.p.Num() }

// Skipped returns the number of invalid completions, which were skipped.
func (c *CQ) Skipped() uint64 { return uint64(c.p.Skipped()) }
