// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"

	"purerdma/cm"
	"purerdma/verbs"
)

// The hints say what the address is for, and the answer how to get there.
func ExampleLookupAddrInfo() {
	infos, err := cm.LookupAddrInfo(context.Background(), "10.8.0.1", "7471", &cm.AddrInfoHints{
		Flags:  cm.AddrInfoNumericHost,
		QPType: verbs.UD,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range infos {
		fmt.Println(info.DstAddr, info.PortSpace)
	}
	_, err = cm.LookupAddrInfo(context.Background(), "10.8.0.1", "7471", &cm.AddrInfoHints{Family: cm.FamilyIPv6})
	fmt.Println(errors.Is(err, cm.EAIAddrFamily), err)
	// Output:
	// 10.8.0.1:7471 RDMA_PS_UDP
	// true rdma look up address info: node "10.8.0.1", service "7471": the node has no address of the family
}

// A GID as the address of an InfiniBand port.
func ExampleAddrFromGID() {
	gid := verbs.GID(netip.MustParseAddr("fe80::2:c903:0:1").As16())
	fmt.Println(cm.AddrFromGID(gid, cm.PortSpaceTCP, 7471))
	// Output:
	// ib[fe80::2:c903:0:1]:0x1061d2f
}

// A server as rdma_create_ep and rdma_get_request make one.
func ExampleListenConfig_ListenInfo() {
	ctx := context.Background()
	infos, err := cm.LookupAddrInfo(ctx, "", "7471", &cm.AddrInfoHints{Flags: cm.AddrInfoPassive, PortSpace: cm.PortSpaceTCP})
	if err != nil {
		log.Fatal(err)
	}
	lc := cm.ListenConfig{QP: verbs.QPConfig{Cap: verbs.QPCap{SendWR: 16, RecvWR: 16}}}
	ln, err := lc.ListenInfo(infos[0])
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	req, err := nextRequest(ctx, ln)
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(ctx, req); err != nil {
		log.Fatal(err)
	}
}

// A client that takes whatever was looked up.
func ExampleDialer_DialInfo() {
	ctx := context.Background()
	infos, err := cm.LookupAddrInfo(ctx, "storage.example", "7471", nil)
	if err != nil {
		log.Fatal(err)
	}
	conn, err := new(cm.Dialer).DialInfo(ctx, infos...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
}

// A connection from the network namespace of a container.
func ExampleDialer_netNS() {
	d := cm.Dialer{NetNS: "/proc/4242/ns/net"}
	conn, err := d.Dial(context.Background(), "tcp", "10.8.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
}
