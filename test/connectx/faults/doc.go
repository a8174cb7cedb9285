// SPDX-License-Identifier: Apache-2.0

// Package faults holds what verbs and cm do, and what the kernel's drivers make of it,
// when a card fails: the software ConnectX does as the tests want, from outside of the
// virtual machine ("Software ConnectX" of cmd/rdmavm).
//
// The tests run in a virtual machine of rdmavm -driver mlx5 ("make test-mlx5").
package faults
