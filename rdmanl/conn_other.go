// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rdmanl

import "errors"

// dial returns errors.ErrUnsupported.
func dial() (socket, error) { return nil, errors.ErrUnsupported }

// subscribe returns errors.ErrUnsupported.
func subscribe() (eventSocket, error) { return nil, errors.ErrUnsupported }
