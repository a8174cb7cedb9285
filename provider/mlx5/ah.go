// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"

	"purerdma/provider"
)

// CreateAH makes an address handle.
func (c *Context) CreateAH(cfg *provider.AHConfig) (provider.AH, error) {
	return nil, errors.ErrUnsupported
}
