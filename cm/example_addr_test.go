// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"purerdma/cm"
	"purerdma/verbs"
)

// This example shows a GID as the address of an InfiniBand port.
func ExampleAddrFromGID() {
	gid := verbs.GID(netip.MustParseAddr("fe80::2:c903:0:1").As16())
	fmt.Println(cm.AddrFromGID(gid, cm.PortSpaceTCP, 7471))
	// Output:
	// ib[fe80::2:c903:0:1]:0x1061d2f
}

// This example connects from the network namespace of a container.
func ExampleDialer_netNS() {
	d := cm.Dialer{NetNS: "/proc/4242/ns/net"}
	conn, err := d.Dial(context.Background(), "tcp", "10.8.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
}
