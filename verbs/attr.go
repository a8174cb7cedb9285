// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"purerdma/abi"
	"purerdma/provider"
)

// QPAttrFromKernel converts the answer of the connection manager's INIT_QP_ATTR.
// On iWARP the kernel moves the QP itself, and the mask for RTS then holds no
// QPAttrState: Modify with such a mask leaves the state alone.
func QPAttrFromKernel(k *abi.UverbsQPAttr) (QPAttr, QPAttrMask) { return provider.AttrFromKernel(k) }

// AHAttrFromKernel converts an address of the kernel, as the connection manager's
// events hold.
func AHAttrFromKernel(k *abi.UverbsAHAttr) AHAttr { return provider.AHAttrFromKernel(k) }
