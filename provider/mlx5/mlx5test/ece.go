// SPDX-License-Identifier: Apache-2.0

package mlx5test

import "purerdma/test/connectx/prm"

// ECE is the options of enhanced connection establishment that the device has.
const ECE = prm.ECETrigger | 0x5

// grantECE returns the options that the device grants of those that a command asks for.
func grantECE(asked uint32) uint32 {
	if asked == prm.ECETrigger {
		return ECE
	}
	return asked & ECE
}
