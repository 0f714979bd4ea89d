# SPDX-License-Identifier: Apache-2.0
"""Reads a container image's archive by Python's tarfile, gzip and hashlib: somebody else's reader.

    python3 image_reader.py ARCHIVE [FOLDER]

Follows both indexes, OCI's and docker-archive's, checks every size and digest on the way, and prints
JSON: {"tags", "docker_tags", "digest", "manifest", "config", "blobs", "layer_bytes", "members"}.
A member is {"path", "type", "mode", "uid", "gid", "mtime", "size", "target", "sha1", "sha256"}. With
FOLDER the layer is unpacked there. What is wrong ends it: one line on standard error, status 1.
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile

KIND = {tarfile.REGTYPE: "file", tarfile.DIRTYPE: "folder", tarfile.SYMTYPE: "link"}


def refuse(text):
    print("image_reader: " + text, file=sys.stderr)
    sys.exit(1)


def read_files(archive):
    files = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name in files:
                refuse(f"{member.name} is there twice")
            if member.isfile():
                files[member.name] = tar.extractfile(member).read()
    return files


def blob(files, about):
    kind, _, digest = about["digest"].partition(":")
    data = files.get(f"blobs/{kind}/{digest}")
    if data is None:
        refuse(f"no blob {about['digest']}")
    if len(data) != about["size"]:
        refuse(f"blob {digest} has {len(data)} bytes, not {about['size']}")
    return data


def check_names(files):
    for name, data in files.items():
        if name.startswith("blobs/sha256/"):
            if hashlib.sha256(data).hexdigest() != name.rpartition("/")[2]:
                refuse(f"{name} isn't called by its digest")


def member_about(tar, member):
    data = tar.extractfile(member).read() if member.isfile() else b""
    return {
        "path": member.name, "type": KIND.get(member.type, "other"), "mode": member.mode,
        "uid": member.uid, "gid": member.gid, "owner": member.uname + member.gname,
        "mtime": member.mtime, "size": member.size, "target": member.linkname,
        "sha1": hashlib.sha1(data).hexdigest(), "sha256": hashlib.sha256(data).hexdigest(),
    }


def main(archive, folder=None):
    files = read_files(archive)
    check_names(files)
    index = json.loads(files["index.json"])
    if len(index["manifests"]) != 1:
        refuse("more than one image")
    about = index["manifests"][0]
    manifest = json.loads(blob(files, about))
    config = json.loads(blob(files, manifest["config"]))
    if len(manifest["layers"]) != 1:
        refuse("more than one layer")
    layer = gzip.decompress(blob(files, manifest["layers"][0]))
    if config["rootfs"]["diff_ids"] != ["sha256:" + hashlib.sha256(layer).hexdigest()]:
        refuse("the layer isn't what the configuration names")
    docker = json.loads(files["manifest.json"])
    if len(docker) != 1 or files.get(docker[0]["Config"]) != blob(files, manifest["config"]) or [
            files.get(name) for name in docker[0]["Layers"]] != [blob(files, manifest["layers"][0])]:
        refuse("manifest.json names another image than index.json")
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        members = [member_about(tar, member) for member in tar]
        if folder:
            tar.extractall(folder)
    print(json.dumps({
        "layout": json.loads(files["oci-layout"]), "index": index, "manifest": manifest,
        "config": config, "digest": about["digest"], "docker_tags": docker[0]["RepoTags"],
        "blobs": sorted(name for name in files if name.startswith("blobs/")),
        "layer_bytes": len(layer), "members": members,
    }))


main(*sys.argv[1:])
