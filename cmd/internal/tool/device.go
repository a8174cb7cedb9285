// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"syscall"

	"purerdma/verbs"
)

// OpenDevice opens the device with a name, or the first device if name is "". It prints a
// failure as the programs of libibverbs do.
func OpenDevice(u *UI, name string) (*verbs.Device, error) {
	infos, err := verbs.DefaultHost().Devices()
	if err != nil {
		u.Perror("Failed to get IB devices list", err)
		return nil, err
	}
	if name == "" {
		if len(infos) == 0 {
			u.Errorf("No IB devices found\n")
			return nil, verbs.ErrNoDevice
		}
		name = infos[0].Name
	}
	dev, err := verbs.DefaultHost().Open(name)
	switch {
	case errors.Is(err, verbs.ErrNoDevice):
		u.Errorf("IB device %s not found\n", name)
	case err != nil:
		u.Errorf("Couldn't get context for %s\n", name)
		u.Fail(err)
	}
	return dev, err
}

// Errno returns the number of the errno in err, or -1 if there is none.
func Errno(err error) int {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return int(e)
	}
	return -1
}
