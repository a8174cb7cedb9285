// SPDX-License-Identifier: Apache-2.0

//go:build linux && race

package hwcheck

// The race detector detects accesses to memory of the Go heap, but not the doorbells and completions that order
// them.
func init() { excluded["go-memory"] = true }
