// SPDX-License-Identifier: Apache-2.0

package vmtest

import "os"

// Driver returns the kernel driver of the VM's devices, "rxe", "siw", "mlx5" or
// "erdma".
func Driver() string { return os.Getenv("RDMAVM_DRIVER") }

// IWARP reports whether the VM's devices have ports of iWARP. Other devices have ports of RoCE.
func IWARP() bool { return Driver() == "siw" || Driver() == "erdma" }
