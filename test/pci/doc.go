// SPDX-License-Identifier: Apache-2.0

// Package pci contains what the software models of PCI devices have in common, and the
// interfaces by which rdmavm uses a model. A [Function] is one device on a bus. A [Fabric]
// creates the functions of one network. A [ConfigSpace] identifies a function to its driver.
//
// Package vfiouser attaches a function to a virtual machine. The models are in packages of
// their own, such as connectx.
package pci
