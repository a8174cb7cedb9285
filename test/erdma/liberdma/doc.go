// SPDX-License-Identifier: Apache-2.0

// Package liberdma runs rdma-core's programs on the software eRDMA adapter, with its liberdma and
// the kernel's erdma. They are written for the adapter, independently of this project. A failure
// on the model is a defect of the model.
//
// The tests run in a virtual machine of rdmavm -driver erdma ("make test-erdma").
// The script twovms.sh runs the programs between two virtual machines, against each other and against this project's
// programs.
package liberdma
