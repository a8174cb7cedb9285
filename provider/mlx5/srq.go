// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"

	"purerdma/provider"
)

// SRQ is a shared receive queue.
type SRQ struct{ provider.SRQ }

// CreateSRQ makes a shared receive queue.
func (c *Context) CreateSRQ(cfg *provider.SRQConfig) (provider.SRQ, error) {
	return nil, errors.ErrUnsupported
}
