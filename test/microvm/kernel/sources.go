// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"context"
	"io"

	"purerdma/test/microvm/apt"
	"purerdma/test/microvm/arch"
	"purerdma/test/microvm/cache"
)

// Sources contains the sources of a kernel of a series.
type Sources struct {
	Cache    *cache.Cache
	Series   Series
	Arch     *arch.Arch
	Refresh  bool // check for newer versions than in the cache
	Progress io.Writer
}

// machineApt opens the apt state for programs of this machine from a release.
func (s Sources) machineApt(ctx context.Context, release string) (*apt.Apt, error) {
	backports := s.Series.Backports && release == s.Series.Release
	return apt.Open(ctx, s.Cache.Path("apt", release), arch.AMD64, release, backports, s.Refresh, s.Progress)
}

// apt opens the apt state for the series.
func (s Sources) apt(ctx context.Context) (*apt.Apt, error) {
	return apt.Open(ctx, s.Cache.Path("apt", s.Series.Release+s.Arch.Suffix()), s.Arch, s.Series.Release, s.Series.Backports, s.Refresh, s.Progress)
}
