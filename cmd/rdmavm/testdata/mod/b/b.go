// SPDX-License-Identifier: Apache-2.0

package b

func F(x int) int {
	if x > 1 {
		return 2
	}
	return 1
}
