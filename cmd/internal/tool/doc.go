// SPDX-License-Identifier: Apache-2.0

// Package tool contains the common parts of the programs that correspond to rdma-core's. It
// starts and ends programs, parses command lines, looks up addresses, prints, and waits for
// events. It prints the messages of the C programs, so that scripts that parse them continue to
// work. Additional details are printed to standard error on separate lines.
package tool
