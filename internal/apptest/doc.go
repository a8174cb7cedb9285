// SPDX-License-Identifier: Apache-2.0

// Package apptest runs the two sides of tests of applications on package stream. Tests in the other modules of this
// repository also use it.
package apptest
