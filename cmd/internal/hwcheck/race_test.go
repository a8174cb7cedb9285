// SPDX-License-Identifier: Apache-2.0

//go:build linux && race

package hwcheck

// excluded lists the checks that the tests do not run. The race detector detects accesses to memory of the Go
// heap, but not the doorbells and completions that order them.
var excluded = map[string]bool{"go-memory": true}
