// SPDX-License-Identifier: Apache-2.0

// Package faults tests packages cm and verbs on a failing eRDMA adapter. The tests control the
// software eRDMA, which is outside of the virtual machine ("Software eRDMA" of cmd/rdmavm).
//
// The tests run in a virtual machine of rdmavm -driver erdma ("make test-erdma").
package faults
