// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/pci"

// Memory is the device's access to the memory of the host. The device reads and writes host
// memory only through it.
type Memory = pci.Memory
