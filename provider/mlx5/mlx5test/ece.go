// SPDX-License-Identifier: Apache-2.0

package mlx5test

import "purerdma/test/connectx/prm"

// ECE holds the options of enhanced connection establishment that the device supports.
const ECE = prm.ECETrigger | 0x5

// grantECE returns the options that the device grants for the requested ones.
func grantECE(asked uint32) uint32 {
	if asked == prm.ECETrigger {
		return ECE
	}
	return asked & ECE
}
