// SPDX-License-Identifier: Apache-2.0

// Package libmlx5 runs rdma-core's programs on the software ConnectX, with its libmlx5 and the
// kernel's mlx5_core, mlx5e and mlx5_ib. They are written for the card, independently of this
// project. A failure on the model is a defect of the model.
//
// The tests run in a virtual machine of rdmavm -driver mlx5 ("make test-mlx5").
package libmlx5
