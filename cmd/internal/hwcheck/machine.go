// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"

	"purerdma/internal/hwreport"
	"purerdma/verbs"
)

// modelBoard is the board of the software ConnectX (package test/connectx).
const modelBoard = "PURERDMA_MODEL"

// modelFirmware is the version of the firmware of the software eRDMA (package test/erdma). Its driver reports
// neither a board nor the PCI function.
const modelFirmware = 0x5052_0001

// modelSubsystem is the PCI subsystem of the software NetXtreme-E (package test/netxtreme).
const modelSubsystem = "0x5052"

// Describe describes the target's device and its host. It reads files of the kernel and leaves out missing
// files.
func Describe(t *Target) hwreport.Machine {
	class := filepath.Join("/sys/class/infiniband", t.Device)
	pci := filepath.Join(class, "device")
	port := filepath.Join(class, "ports", fmt.Sprint(t.Port))
	m := hwreport.Machine{
		Device: t.Device, Board: line(class, "board_id"), Firmware: line(class, "fw_ver"),
		Kernel: line("/proc/sys/kernel/osrelease"), Arch: runtime.GOARCH, PageSize: os.Getpagesize(), CPUs: runtime.NumCPU(),
		Facts: map[string]string{},
	}
	if vendor := line(pci, "vendor"); vendor != "" {
		m.PCI = vendor + ":" + line(pci, "device")
	}
	m.Link = strings.Trim(line(port, "link_layer")+", "+line(port, "rate"), ", ")
	for name, file := range map[string]string{
		"hca_type": class + "/hca_type", "hw_rev": class + "/hw_rev", "numa_node": pci + "/numa_node",
		"pci_speed": pci + "/current_link_speed", "pci_width": pci + "/current_link_width", "pci_max_speed": pci + "/max_link_speed", "pci_max_width": pci + "/max_link_width",
		"port_state": port + "/state", "port_phys_state": port + "/phys_state", "os_type": "/proc/sys/kernel/ostype", "mlx5_core_version": "/sys/module/mlx5_core/version",
		"mlx5_core_srcversion": "/sys/module/mlx5_core/srcversion", "mlx5_ib_version": "/sys/module/mlx5_ib/version",
		"local_cpus": pci + "/local_cpulist", "iommu_type": pci + "/iommu_group/type", "governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
		"cgroup_rdma_max": groupFile("rdma.max"), "huge_pages": "/proc/meminfo", "cpu": "/proc/cpuinfo", "memlock": "/proc/self/limits", "cmdline_iommu": "/proc/cmdline",
	} {
		if text := fact(name, file); text != "" {
			m.Facts[name] = text
		}
	}
	if groups, err := os.ReadDir("/sys/kernel/iommu_groups"); err == nil {
		m.Facts["iommu_groups"] = fmt.Sprint(len(groups))
	}
	if config, err := os.ReadFile(filepath.Join(pci, "config")); err == nil {
		if text := pciControl(config); text != "" {
			m.Facts["pci_control"] = text
		}
	}
	if _, err := os.Stat(filepath.Join(pci, "physfn")); err == nil {
		m.Facts["virtual_function"] = "true"
	}
	if device, err := filepath.EvalSymlinks(pci); err == nil {
		maps.Copy(m.Facts, firmware(filepath.Base(device)))
	}
	m.Kind = hwreport.Card
	describeDevice(t, &m)
	return m
}

// firmware returns the versions that devlink prints about a PCI device.
func firmware(device string) map[string]string {
	path, err := exec.LookPath("devlink")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), devlinkTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-j", "dev", "info", "pci/"+device).Output()
	if err != nil {
		return map[string]string{"devlink_error": err.Error()}
	}
	return parseFirmware(out)
}

// parseFirmware parses the output of devlink -j dev info. It omits the serial numbers, which are not in the versions.
func parseFirmware(text []byte) map[string]string {
	var out struct {
		Info map[string]struct {
			Driver   string
			Versions map[string]map[string]string
		}
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return map[string]string{"devlink_error": err.Error()}
	}
	facts := map[string]string{}
	for _, info := range out.Info {
		facts["devlink.driver"] = info.Driver
		for kind, versions := range info.Versions { // fixed, running and stored
			for name, version := range versions {
				facts["devlink."+kind+"."+name] = version
			}
		}
	}
	return facts
}

// describeDevice describes what the kernel returns about the device.
func describeDevice(t *Target, m *hwreport.Machine) {
	infos, err := t.Host.Devices()
	if err != nil {
		m.Facts["devices_error"] = err.Error()
		return
	}
	for _, info := range infos {
		if info.Name == t.Device {
			m.Driver = strings.ToLower(strings.TrimPrefix(fmt.Sprint(info.DriverID), "RDMA_DRIVER_"))
			m.Facts["abi_version"] = fmt.Sprint(info.ABIVersion)
		}
	}
	switch {
	case m.Driver == "rxe" || m.Driver == "siw":
		m.Kind = hwreport.Software
	case m.Board == modelBoard || t.Host.Kernel != nil,
		m.Driver == "bnxt_re" && line("/sys/class/infiniband", t.Device, "device/subsystem_device") == modelSubsystem:
		m.Kind = hwreport.Model
	}
	dev, err := t.Host.Open(t.Device)
	if err != nil {
		m.Facts["open_error"] = err.Error()
		return
	}
	defer dev.Close()
	if m.Driver == "erdma" && dev.Attr().FWVersion == modelFirmware {
		m.Kind = hwreport.Model
	}
	addFields(m.Facts, "attr.", dev.Attr())
	features := dev.Features()
	addFields(m.Facts, "feature.", &features)
	if port, err := dev.QueryPort(t.Port); err == nil {
		m.Link = strings.TrimPrefix(fmt.Sprintf("%s, MTU %d", m.Link, port.ActiveMTU.Bytes()), ", ")
		addFields(m.Facts, "port.", &port)
	}
	gids, err := dev.GIDs()
	if err != nil {
		m.Facts["gids_error"] = err.Error()
		return
	}
	types := map[verbs.GIDType]int{}
	for _, g := range gids {
		if g.Port == t.Port {
			types[g.Type]++
		}
	}
	for typ, n := range types {
		m.Facts[fmt.Sprintf("gids.%v", typ)] = fmt.Sprint(n)
	}
}

// identities are the fields that identify a host or a device among others.
var identities = map[string]bool{"NodeGUID": true, "SysImageGUID": true, "LID": true, "SMLID": true}

// addFields adds the fields of a struct that are not zero.
func addFields(facts map[string]string, prefix string, of any) {
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if !v.Field(i).IsZero() && !identities[name] {
			facts[prefix+name] = fmt.Sprint(v.Field(i).Interface())
		}
	}
}

// fact returns the part of a file that a fact needs.
func fact(name, file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	text := strings.TrimSpace(string(b))
	switch name {
	case "cpu":
		return lineWith(text, "model name")
	case "memlock":
		return lineWith(text, "Max locked memory")
	case "huge_pages":
		return lineWith(text, "HugePages_Total")
	case "cmdline_iommu":
		var words []string
		for _, w := range strings.Fields(text) {
			if strings.Contains(w, "iommu") {
				words = append(words, w)
			}
		}
		return strings.Join(words, " ")
	}
	return strings.Join(strings.Fields(text), " ")
}

// groupFile returns a file of the control group (version 2) of this process.
func groupFile(name string) string {
	path := strings.TrimPrefix(lineWith(line("/proc/self/cgroup"), "0::"), "0::")
	return filepath.Join("/sys/fs/cgroup", path, name)
}

// lineWith returns the first line that begins with a prefix.
func lineWith(text, prefix string) string {
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, prefix) {
			return strings.Join(strings.Fields(l), " ")
		}
	}
	return ""
}

// line returns the contents of a file of one line, or "".
func line(path ...string) string {
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
