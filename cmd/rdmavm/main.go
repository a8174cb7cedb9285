// SPDX-License-Identifier: Apache-2.0

// Rdmavm runs a program in a small virtual machine that has RDMA devices.
package main
