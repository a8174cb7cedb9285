// SPDX-License-Identifier: Apache-2.0

// Package ethernet parses and changes frames of Ethernet with IP, TCP and UDP, as network cards
// do for their drivers. The models of network cards use it.
package ethernet
