// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre_test

import (
	"testing"

	"purerdma/test/oracle/replay"
)

// TestVectors compares the requests, search tables and doorbells that the adapter would read, the inputs of commands, and
// the program's completions with libbnxt_re's.
func TestVectors(t *testing.T) { replay.Run(t, libbnxtre) }
