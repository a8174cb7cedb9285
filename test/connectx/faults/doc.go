// SPDX-License-Identifier: Apache-2.0

// Package faults tests verbs, cm and the kernel's drivers on a failing card. The tests control
// the software ConnectX, which is outside of the virtual machine ("Software ConnectX" of
// cmd/rdmavm).
//
// The tests run in a virtual machine of rdmavm -driver mlx5 ("make test-mlx5").
package faults
