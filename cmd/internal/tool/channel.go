// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"io/fs"
	"syscall"

	"purerdma/cm"
)

// OpenChannel opens an event channel. It prints a failure.
func OpenChannel(u *UI) (*cm.EventChannel, error) {
	ch, err := cm.NewEventChannel(nil)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV):
		u.Errorf("No RDMA devices were detected\n")
		u.Fail(err)
	default:
		u.Perror("failed to create RDMA CM event channel", err)
	}
	return ch, err
}
