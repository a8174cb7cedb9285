// SPDX-License-Identifier: Apache-2.0

// Package streamnet connects the two sides of tests that run programs on package stream. Tests in the other modules
// of this repository also use it.
package streamnet
