#!/usr/bin/env python3
"""Distils the kinds that deploy/kubernetes uses from published schemas into kinds.json.

    distil_kinds.py --kubernetes SWAGGER.json --version VERSION --crd FILE.yaml... >kinds.json

SWAGGER.json is api/openapi-spec/swagger.json of Kubernetes; a FILE.yaml is a
CustomResourceDefinition. Only names of fields, their types and what is required are kept, in the
notation of tests/core/engine/schedulers/kubernetes_models.json: T! is required, []T a list, {}T a
map; string, bool, int, number, quantity, name_or_number and any are scalars.
"""
import argparse
import json
import sys

import yaml

KINDS = {
    ("v1", "Namespace"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("apps/v1", "Deployment"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
}
# Left out: what only the cluster itself writes, and volumes of single vendors.
LEFT_OUT_FIELDS = {"status", "managedFields", "ephemeralContainers"}
KEPT_VOLUMES = {
    "configMap",
    "downwardAPI",
    "emptyDir",
    "name",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "name_or_number",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "string",
}
PRIMITIVES = {"string": "string", "boolean": "bool", "integer": "int", "number": "number"}


class Distiller:
    """Types by name, in the compact notation. Structures of custom resources are named by their path."""

    def __init__(self):
        self.types = {}
        self.definitions = {}

    def type_of(self, schema, path):
        """The notation of a schema's type; defines the structures that it uses."""
        if "$ref" in schema:
            return self.reference(schema["$ref"].rsplit("/", 1)[1])
        if schema.get("x-kubernetes-int-or-string"):
            return "quantity" if "pattern" in schema else "name_or_number"
        if schema.get("type") == "array":
            return "[]" + self.type_of(schema["items"], path)
        if isinstance(schema.get("additionalProperties"), dict):
            return "{}" + self.type_of(schema["additionalProperties"], path)
        if "properties" in schema:
            return self.structure(path, schema)
        return PRIMITIVES.get(schema.get("type"), "any")

    def reference(self, name):
        if name in SCALARS:
            return SCALARS[name]
        short = name.rsplit(".", 1)[1]
        if short not in self.types:
            schema = self.definitions[name]
            if "properties" not in schema:
                return self.type_of(schema, short)
            self.structure(short, schema)
        return short

    def structure(self, name, schema):
        required = set(schema.get("required", ()))
        fields = self.types[name] = {}
        for field, part in sorted(schema["properties"].items()):
            if field in LEFT_OUT_FIELDS or (name == "Volume" and field not in KEPT_VOLUMES):
                continue
            notation = self.type_of(part, f"{name}.{field}")
            fields[field] = notation + ("!" if field in required else "")
        return name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubernetes", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--crd", nargs="+", default=[])
    options = parser.parse_args()

    distiller = Distiller()
    kinds = {}
    with open(options.kubernetes, encoding="utf-8") as file:
        distiller.definitions = json.load(file)["definitions"]
    for name, schema in distiller.definitions.items():
        for one in schema.get("x-kubernetes-group-version-kind", ()):
            version = f"{one['group']}/{one['version']}".lstrip("/")
            if (version, one["kind"]) in KINDS:
                kinds[f"{version} {one['kind']}"] = distiller.reference(name)
    sources = [f"Kubernetes {options.version}, api/openapi-spec/swagger.json, Apache-2.0"]
    for path in options.crd:
        with open(path, encoding="utf-8") as file:
            crd = yaml.safe_load(file)
        names = crd["spec"]["names"]
        for version in crd["spec"]["versions"]:
            schema = dict(version["schema"]["openAPIV3Schema"])
            schema["properties"] = dict(schema["properties"])
            schema["properties"]["metadata"] = {
                "$ref": "/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
            }
            kinds[
                f"{crd['spec']['group']}/{version['name']} {names['kind']}"
            ] = distiller.structure(names["kind"], schema)
        operator = crd["metadata"]["annotations"]["operator.prometheus.io/version"]
        sources.append(
            f"prometheus-operator {operator}, CustomResourceDefinition {crd['metadata']['name']}, Apache-2.0"
        )

    about = "Written by distil_kinds.py: fields of kinds, their types and what is required."
    lines = [
        f"  {json.dumps(name)}: {json.dumps(fields)}"
        for name, fields in sorted(distiller.types.items())
    ]
    sys.stdout.write(
        f'{{"about": {json.dumps(about)},\n"sources": {json.dumps(sources, indent=1)},\n'
        f'"kinds": {json.dumps(kinds, indent=1, sort_keys=True)},\n"types": {{\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )


if __name__ == "__main__":
    main()
