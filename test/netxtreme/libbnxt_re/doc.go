// SPDX-License-Identifier: Apache-2.0

// Package libbnxt_re runs rdma-core's programs on the software NetXtreme-E, with its libbnxt_re
// and the kernel's bnxt_en and bnxt_re. They are written for the card, independently of this
// project. A failure on the model is a defect of the model.
//
// The tests run in a virtual machine of rdmavm -driver bnxt_re ("make test-bnxt_re").
// The script twovms.sh runs the programs between two virtual machines.
package libbnxt_re
