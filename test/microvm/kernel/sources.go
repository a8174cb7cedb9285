// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"context"
	"io"

	"purerdma/test/microvm/apt"
	"purerdma/test/microvm/cache"
)

// Sources contains the sources of a kernel of a series.
type Sources struct {
	Cache    *cache.Cache
	Series   Series
	Refresh  bool // check for newer versions than in the cache
	Progress io.Writer
}

// apt opens the apt state for the series.
func (s Sources) apt(ctx context.Context) (*apt.Apt, error) {
	return apt.Open(ctx, s.Cache.Path("apt", s.Series.Release), s.Series.Release, s.Series.Backports, s.Refresh, s.Progress)
}
