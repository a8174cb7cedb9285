// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"os"
	"strings"
)

// p7Suffix is the suffix of the driver bnxt_re-p7 of rdmavm. Its devices are of the generation P7.
const p7Suffix = "-p7"

// Driver returns the kernel driver of the VM's devices, "rxe", "siw", "mlx5", "erdma" or "bnxt_re".
func Driver() string { return strings.TrimSuffix(os.Getenv("RDMAVM_DRIVER"), p7Suffix) }

// P7 reports whether the VM's devices are NetXtreme-E cards of the generation P7 (rdmavm -driver bnxt_re-p7).
func P7() bool { return strings.HasSuffix(os.Getenv("RDMAVM_DRIVER"), p7Suffix) }

// Modeled reports whether rdmavm itself models the VM's devices, as PCI functions. The kernel then creates no RDMA
// devices on other network interfaces.
func Modeled() bool { return Driver() == "mlx5" || Driver() == "erdma" || Driver() == "bnxt_re" }

// IWARP reports whether the VM's devices have ports of iWARP. Other devices have ports of RoCE.
func IWARP() bool { return Driver() == "siw" || Driver() == "erdma" }
