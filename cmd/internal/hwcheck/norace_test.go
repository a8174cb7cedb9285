// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package hwcheck

// excluded lists the checks that the tests do not run.
var excluded map[string]bool
