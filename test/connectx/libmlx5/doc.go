// SPDX-License-Identifier: Apache-2.0

// Package libmlx5 holds rdma-core's programs against the software ConnectX: its
// libmlx5, and the kernel's mlx5_core, mlx5e and mlx5_ib. They were written for the
// card, and know nothing of us; what they cannot do on the model is wrong with it.
//
// The tests run in a virtual machine of rdmavm -driver mlx5 ("make test-mlx5").
package libmlx5
