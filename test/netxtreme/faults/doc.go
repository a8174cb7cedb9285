// SPDX-License-Identifier: Apache-2.0

// Package faults tests packages cm and verbs on a failing NetXtreme-E adapter. The tests control the software
// NetXtreme-E, which is outside of the virtual machine ("Software NetXtreme-E" of cmd/rdmavm).
//
// The tests run in a virtual machine of rdmavm -driver bnxt_re or bnxt_re-p7.
package faults
