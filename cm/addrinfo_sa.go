// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"purerdma/verbs"
)

// saAddrInfo asks the subnet administrators of the fabrics that this host has a
// port on, until one knows the service: a number as C writes it, or a name. It
// returns an AddrInfo for each record.
func saAddrInfo(ctx context.Context, host *verbs.Host, service string) ([]AddrInfo, error) {
	devices, err := host.Devices()
	if err != nil {
		return nil, err
	}
	failure := fmt.Errorf("no active port of an InfiniBand fabric: %w", syscall.ENOENT)
	for _, info := range devices {
		gids, err := fabricGIDs(host, info.Name)
		if err != nil {
			failure = err
		}
		for _, gid := range gids {
			infos, err := saAddrInfoAt(ctx, host, gid, service)
			if err == nil || ctx.Err() != nil {
				return infos, err
			}
			failure = err
		}
	}
	return nil, failure
}

// fabricGIDs returns the first GIDs of the active InfiniBand ports of a device.
func fabricGIDs(host *verbs.Host, name string) ([]verbs.GID, error) {
	dev, err := host.Open(name)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	var gids []verbs.GID
	for i := range dev.Attr().Ports {
		port := uint8(i + 1)
		if dev.LinkLayer(port) != verbs.LinkInfiniBand {
			continue
		}
		attr, err := dev.QueryPort(port)
		if err != nil {
			return gids, err
		}
		if attr.State < verbs.PortActive {
			continue
		}
		gid, err := dev.GID(port, 0)
		if err != nil {
			return gids, err
		}
		gids = append(gids, gid.GID)
	}
	return gids, nil
}

// saAddrInfoAt asks the subnet administrator of one port's fabric.
func saAddrInfoAt(ctx context.Context, host *verbs.Host, gid verbs.GID, service string) ([]AddrInfo, error) {
	ch, err := NewEventChannel(host)
	if err != nil {
		return nil, err
	}
	defer ch.Close()
	id, err := ch.NewID(IDConfig{PortSpace: PortSpaceIB})
	if err != nil {
		return nil, err
	}
	if err := id.bind(Addr{IB: IBAddr{GID: gid}}); err != nil {
		return nil, err
	}
	return id.serviceInfos(ctx, gid, service)
}

// serviceInfos asks on an ID that is bound to the port with the GID.
func (id *ID) serviceInfos(ctx context.Context, gid verbs.GID, service string) ([]AddrInfo, error) {
	var err error
	if n, ok := parseServiceID(service); ok {
		err = id.ResolveIBService(n)
	} else {
		err = id.ResolveIBServiceName(service)
	}
	if err != nil {
		return nil, err
	}
	if err := expect(ctx, id, EventAddrInfoResolved); err != nil {
		return nil, err
	}
	records, err := id.QueryIBService()
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, id.opError(opService, syscall.ENOENT)
	}
	infos := make([]AddrInfo, len(records))
	for i, r := range records {
		src := AddrFromGID(gid, PortSpaceIB, 0)
		src.IB.PKey = r.PKey
		infos[i] = AddrInfo{
			Flags:     AddrInfoSA,
			Family:    FamilyIB,
			PortSpace: PortSpaceIB,
			SrcAddr:   src,
			DstAddr:   Addr{IB: IBAddr{PKey: r.PKey, GID: r.GID, ServiceID: r.ID, ServiceIDMask: ^uint64(0)}},
		}
	}
	return infos, nil
}

// parseServiceID reads a number as strtoull(3) does in base 0, with spaces and a sign
// before it.
func parseServiceID(s string) (id uint64, ok bool) {
	digits := strings.TrimLeft(s, " \t\n\v\f\r")
	negative := strings.HasPrefix(digits, "-")
	if negative || strings.HasPrefix(digits, "+") {
		digits = digits[1:]
	}
	base, digits := cBase(digits)
	id, err := strconv.ParseUint(digits, base, 64)
	if negative {
		id = -id
	}
	return id, err == nil
}
