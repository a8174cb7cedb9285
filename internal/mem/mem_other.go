// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mem

import "errors"

func mapAnonymous(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func mapHuge(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func preferNode([]byte, int) error { return errors.ErrUnsupported }

func hugePage() int { return 0 }

// MapFile returns errors.ErrUnsupported.
func MapFile(int, int64, int) ([]byte, error) { return nil, errors.ErrUnsupported }

// MapFileReadOnly returns errors.ErrUnsupported.
func MapFileReadOnly(int, int64, int) ([]byte, error) { return nil, errors.ErrUnsupported }

// Replace returns errors.ErrUnsupported.
func Replace([]byte) error { return errors.ErrUnsupported }

// Unmap returns errors.ErrUnsupported.
func Unmap([]byte) error { return errors.ErrUnsupported }

// LockLimit returns false for "unlimited".
func LockLimit() (uint64, bool) { return 0, false }

// Pinned reports that the number is not known.
func Pinned() (uint64, bool) { return 0, false }

// FileLimit returns 0.
func FileLimit() uint64 { return 0 }
