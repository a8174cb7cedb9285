// SPDX-License-Identifier: Apache-2.0

package guest

import "purerdma/test/microvm/wire"

// debugExit ends QEMU through a semihosting call (Semihosting for AArch32 and AArch64, SYS_EXIT).
func debugExit() { semihostingExit(wire.DebugExitStatus) }

// semihostingExit makes the call with an exit status.
func semihostingExit(status uint64)
